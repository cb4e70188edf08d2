#!/usr/bin/env python3
"""Derives the layer tables of this folder from the published architectures: one JSON a network, beside this file.

../README.md says what a row means. Standard library only.
"""

import json
import math
from pathlib import Path

FOLDER = Path(__file__).parent


class Tensor:
    """What a row makes. `holds` is what a row that reads it has as input_is."""

    def __init__(self, shape, holds, made_by=None, relus=0, dropped=0.0):
        self.shape, self.holds, self.made_by, self.relus, self.dropped = shape, holds, made_by, relus, dropped
        self.readers = []  # rows in execution order
        self.needed = False  # by the backward pass of one of them

    def values(self):
        return math.prod(self.shape)


class Network:
    """Rows in execution order. Each method adds one and returns its tensor."""

    def __init__(self, title, variant, source, input_shape):
        self.title, self.variant, self.source = title, variant, source
        self.image = Tensor(input_shape, "image")
        self.rows = []

    def row(self, name, kind, reads, shape, holds, *, in_place=False, needs_input=True, moved, kernel=0, macs=0,
            weights=0, relus=0, dropped=0.0):
        relus = max([relus] + [tensor.relus for tensor in reads])
        row = {"name": name, "kind": kind, "in_place": in_place, "input": reads[0].shape, "output": shape,
               "input_values": 0, "output_values": math.prod(shape), "moved_values": moved, "kernel": kernel,
               "macs": macs, "weights": weights, "input_is": reads[0].holds, "dropped": reads[0].dropped, "depth": 0.0,
               "from": [tensor.made_by["name"] for tensor in reads if tensor.made_by], "shared": False}  # fmt: skip
        for tensor in reads:
            tensor.readers.append(row)
            tensor.needed |= needs_input and not in_place
        self.rows.append((row, reads))
        return Tensor(shape, holds, row, relus, dropped)

    def window(self, x, kernel, stride, pad, up=False):
        """Height and width of what a window makes that moves over x; pooling of Caffe's age rounds up."""
        return [(math.ceil if up else math.floor)((size + 2 * pad - kernel) / stride) + 1 for size in x.shape[1:]]

    def conv(self, x, name, channels, kernel, stride=1, pad=0, groups=1, bias=True):
        shape = [channels, *self.window(x, kernel, stride, pad)]
        filters = channels * (x.shape[0] // groups) * kernel * kernel
        return self.row(name, "convolution", [x], shape, "dense", moved=x.values() + math.prod(shape),
                        kernel=kernel, macs=filters * shape[1] * shape[2], weights=filters + bias * channels)

    def fc(self, x, name, channels):
        return self.row(name, "fully_connected", [x], [channels, 1, 1], "dense", moved=x.values() + channels,
                        macs=x.values() * channels, weights=(x.values() + 1) * channels)

    def relu(self, x, name):
        # Those of fully connected layers count no depth: the recordings end with the last convolution.
        deeper = x.made_by["kind"] != "fully_connected"
        return self.row(name, "activation", [x], x.shape, "relu", in_place=True, moved=2 * x.values(),
                        relus=x.relus + deeper)

    def pool(self, x, name, kernel, stride, pad=0, up=True):
        shape = [x.shape[0], *self.window(x, kernel, stride, pad, up)]
        return self.row(name, "pooling", [x], shape, "pooled_relu", moved=x.values() + math.prod(shape))

    def mean(self, x, name):
        """Global average pooling: of so many values hardly ever all are zero."""
        return self.row(name, "pooling", [x], [x.shape[0], 1, 1], "dense", moved=x.values() + x.shape[0])

    def lrn(self, x, name):
        return self.row(name, "normalization", [x], x.shape, x.holds, moved=2 * x.values(), dropped=x.dropped)

    def bn(self, x, name):
        return self.row(name, "normalization", [x], x.shape, "dense", moved=3 * x.values(), weights=2 * x.shape[0])

    def dropout(self, x, name, share=0.5):
        return self.row(name, "other", [x], x.shape, x.holds, in_place=True, moved=2 * x.values(), dropped=share)

    def concat(self, name, *parts):
        """Moves nothing: its parts were written where it wants them."""
        shape = [sum(part.shape[0] for part in parts), *parts[0].shape[1:]]
        return self.row(name, "other", parts, shape, "relu", in_place=True, moved=0)

    def add(self, x, shortcut, name):
        return self.row(name, "other", [shortcut, x], x.shape, "dense", needs_input=False, moved=3 * x.values())

    def softmax(self, x):
        return self.row("softmax", "softmax", [x], x.shape, "dense", moved=2 * x.values())

    def conv_relu(self, x, name, *shape, **options):
        return self.relu(self.conv(x, name, *shape, **options), f"{name}/relu")

    def conv_bn(self, x, name, *shape, **options):
        return self.bn(self.conv(x, name, *shape, bias=False, **options), f"{name}/bn")

    def conv_bn_relu(self, x, name, *shape, **options):
        return self.relu(self.conv_bn(x, name, *shape, **options), f"{name}/relu")

    def fc_relu_dropout(self, x, name, channels):
        return self.dropout(self.relu(self.fc(x, name, channels), f"{name}/relu"), f"{name}/dropout")

    def layers(self):
        """The rows, with what only the whole network tells: a tensor that the backward pass needs is kept by the last
        row that reads it, and depth is a share of the most ReLUs on a path."""
        deepest = max(tensor.relus for _, reads in self.rows for tensor in reads)
        for row, reads in self.rows:
            needed = [tensor for tensor in reads if tensor.needed]
            row["input_values"] = sum(tensor.values() for tensor in needed if tensor.readers[-1] is row)
            row["depth"] = round(max(reads[0].relus - 1, 0) / (deepest - 1), 4)
            elsewhere = [tensor.readers[-1]["name"] for tensor in needed if tensor.readers[-1] is not row]
            if elsewhere:
                row.update(shared=True, kept_by=elsewhere[0])
            yield row


def alexnet():
    n = Network("AlexNet", "grouped convolutions, as on two GPUs but on one; LRN before pooling",
                "Krizhevsky et al., NIPS 2012", [3, 227, 227])
    x = n.conv_relu(n.image, "conv1", 96, 11, stride=4)
    x = n.pool(n.lrn(x, "norm1"), "pool1", 3, 2)
    x = n.conv_relu(x, "conv2", 256, 5, pad=2, groups=2)
    x = n.pool(n.lrn(x, "norm2"), "pool2", 3, 2)
    x = n.conv_relu(x, "conv3", 384, 3, pad=1)
    x = n.conv_relu(x, "conv4", 384, 3, pad=1, groups=2)
    x = n.conv_relu(x, "conv5", 256, 3, pad=1, groups=2)
    x = n.pool(x, "pool5", 3, 2)
    x = n.fc_relu_dropout(x, "fc6", 4096)
    x = n.fc_relu_dropout(x, "fc7", 4096)
    n.softmax(n.fc(x, "fc8", 1000))
    return n


def overfeat():
    n = Network("OverFeat", "fast model", "Sermanet et al., ICLR 2014", [3, 231, 231])
    x = n.pool(n.conv_relu(n.image, "conv1", 96, 11, stride=4), "pool1", 2, 2)
    x = n.pool(n.conv_relu(x, "conv2", 256, 5), "pool2", 2, 2)
    x = n.conv_relu(x, "conv3", 512, 3, pad=1)
    x = n.conv_relu(x, "conv4", 1024, 3, pad=1)
    x = n.pool(n.conv_relu(x, "conv5", 1024, 3, pad=1), "pool5", 2, 2)
    x = n.fc_relu_dropout(x, "fc6", 3072)
    x = n.fc_relu_dropout(x, "fc7", 4096)
    n.softmax(n.fc(x, "fc8", 1000))
    return n


def nin():
    n = Network("NiN", "the authors' ImageNet model", "Lin et al., ICLR 2014", [3, 224, 224])
    x = n.image
    for i, (channels, kernel, stride, pad) in enumerate(((96, 11, 4, 0), (256, 5, 1, 2), (384, 3, 1, 1)), 1):
        x = n.conv_relu(x, f"conv{i}", channels, kernel, stride=stride, pad=pad)
        x = n.conv_relu(x, f"cccp{2 * i - 1}", channels, 1)
        x = n.conv_relu(x, f"cccp{2 * i}", channels, 1)
        x = n.pool(x, f"pool{i}", 3, 2)
    x = n.conv_relu(n.dropout(x, "dropout"), "conv4", 1024, 3, pad=1)
    x = n.conv_relu(x, "cccp7", 1024, 1)
    x = n.conv_relu(x, "cccp8", 1000, 1)
    n.softmax(n.mean(x, "pool4"))
    return n


def vgg(title, configuration, blocks):
    n = Network(title, f"configuration {configuration}", "Simonyan and Zisserman, ICLR 2015", [3, 224, 224])
    x = n.image
    for block, (convs, channels) in enumerate(zip(blocks, (64, 128, 256, 512, 512)), 1):
        for i in range(1, convs + 1):
            x = n.conv_relu(x, f"conv{block}_{i}", channels, 3, pad=1)
        x = n.pool(x, f"pool{block}", 2, 2)
    x = n.fc_relu_dropout(x, "fc6", 4096)
    x = n.fc_relu_dropout(x, "fc7", 4096)
    n.softmax(n.fc(x, "fc8", 1000))
    return n


def squeezenet():
    n = Network("SqueezeNet", "1.0, without bypasses", "Iandola et al., arXiv:1602.07360", [3, 227, 227])
    x = n.pool(n.conv_relu(n.image, "conv1", 96, 7, stride=2), "pool1", 3, 2)
    for i, squeezed in zip(range(2, 10), (16, 16, 32, 32, 48, 48, 64, 64)):
        x = n.conv_relu(x, f"fire{i}/squeeze1x1", squeezed, 1)
        x = n.concat(f"fire{i}/concat", n.conv_relu(x, f"fire{i}/expand1x1", 4 * squeezed, 1),
                     n.conv_relu(x, f"fire{i}/expand3x3", 4 * squeezed, 3, pad=1))
        if i in (4, 8):
            x = n.pool(x, f"pool{i}", 3, 2)
    x = n.conv_relu(n.dropout(x, "dropout9"), "conv10", 1000, 1)
    n.softmax(n.mean(x, "pool10"))
    return n


def googlenet():
    n = Network("GoogLeNet", "without the two auxiliary classifiers", "Szegedy et al., CVPR 2015", [3, 224, 224])
    x = n.pool(n.conv_relu(n.image, "conv1", 64, 7, stride=2, pad=3), "pool1", 3, 2)
    x = n.conv_relu(n.lrn(x, "norm1"), "conv2/reduce", 64, 1)
    x = n.lrn(n.conv_relu(x, "conv2", 192, 3, pad=1), "norm2")
    x = n.pool(x, "pool2", 3, 2)
    modules = {  # channels: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, after the pooling
        "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64), "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
    }  # fmt: skip
    for at, (one, reduce3, three, reduce5, five, pooled) in modules.items():
        x = n.concat(
            f"{at}/concat",
            n.conv_relu(x, f"{at}/1x1", one, 1),
            n.conv_relu(n.conv_relu(x, f"{at}/3x3_reduce", reduce3, 1), f"{at}/3x3", three, 3, pad=1),
            n.conv_relu(n.conv_relu(x, f"{at}/5x5_reduce", reduce5, 1), f"{at}/5x5", five, 5, pad=2),
            n.conv_relu(n.pool(x, f"{at}/pool", 3, 1, pad=1), f"{at}/pool_1x1", pooled, 1),
        )
        if at in ("3b", "4e"):
            x = n.pool(x, f"pool{at[0]}", 3, 2)
    x = n.dropout(n.mean(x, "pool5"), "dropout", 0.4)
    n.softmax(n.fc(x, "fc", 1000))
    return n


def mobilenet():
    n = Network("MobileNet", "v1, width 1.0, 224 x 224", "Howard et al., arXiv:1704.04861", [3, 224, 224])
    x = n.conv_bn_relu(n.image, "conv1", 32, 3, stride=2, pad=1)
    separable = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for i, (channels, stride) in enumerate(separable, 2):
        x = n.conv_bn_relu(x, f"conv{i}/depthwise", x.shape[0], 3, stride=stride, pad=1, groups=x.shape[0])
        x = n.conv_bn_relu(x, f"conv{i}/pointwise", channels, 1)
    n.softmax(n.fc(n.mean(x, "pool"), "fc", 1000))
    return n


def resnet50():
    n = Network("ResNet-50", "v1.5: the 3 x 3 convolution has the stride, not the first 1 x 1",
                "He et al., CVPR 2016; the variant: torchvision", [3, 224, 224])
    x = n.conv_bn_relu(n.image, "conv1", 64, 7, stride=2, pad=3)
    x = n.pool(x, "pool1", 3, 2, pad=1, up=False)
    for stage, (blocks, channels) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512)), 2):
        for block in range(1, blocks + 1):
            at, stride = f"conv{stage}_{block}", 2 if block == 1 and stage > 2 else 1
            y = n.conv_bn_relu(x, f"{at}/1x1a", channels, 1)
            y = n.conv_bn_relu(y, f"{at}/3x3", channels, 3, stride=stride, pad=1)
            y = n.conv_bn(y, f"{at}/1x1b", 4 * channels, 1)
            shortcut = n.conv_bn(x, f"{at}/shortcut", 4 * channels, 1, stride=stride) if block == 1 else x
            x = n.relu(n.add(y, shortcut, f"{at}/add"), f"{at}/relu")
    n.softmax(n.fc(n.mean(x, "pool5"), "fc", 1000))
    return n


def plain20():
    n = Network("Plain20", "CIFAR-10, 20 layers without shortcuts, with batch normalization",
                "He et al., CVPR 2016", [3, 32, 32])
    x = n.conv_bn_relu(n.image, "conv1", 16, 3, pad=1)
    for stage, channels in enumerate((16, 32, 64), 2):
        for i in range(1, 7):
            x = n.conv_bn_relu(x, f"conv{stage}_{i}", channels, 3, stride=2 if i == 1 and stage > 2 else 1, pad=1)
    n.softmax(n.fc(n.mean(x, "pool"), "fc", 10))
    return n


def networks():
    """File name -> network."""
    return {"alexnet": alexnet(), "overfeat": overfeat(), "nin": nin(), "vgg16": vgg("VGG16", "D", (2, 2, 3, 3, 3)),
            "vgg19": vgg("VGG19", "E", (2, 2, 4, 4, 4)), "squeezenet": squeezenet(), "googlenet": googlenet(),
            "mobilenet": mobilenet(), "resnet50": resnet50(), "plain20": plain20()}


def text(network):
    layers = list(network.layers())
    totals = {key: sum(layer[key] for layer in layers) for key in ("macs", "weights", "input_values")}
    head = {"schema": "tuck-network/1", "network": network.title, "variant": network.variant,
            "source": network.source, "totals": totals}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = ",\n".join(json.dumps(layer) for layer in layers)
    return "{" + "\n".join(lines) + f'\n"layers": [\n{rows}\n]}}\n'


if __name__ == "__main__":
    for name, network in networks().items():
        (FOLDER / f"{name}.json").write_text(text(network))
