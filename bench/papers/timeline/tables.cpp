#include "bench/papers/timeline/tables.hpp"

#include "bench/support/gpus.hpp"

#include <cmath>
#include <map>

namespace tuck::bench {
namespace {

template <class T> using names = std::map<std::string, T>;

template <class T> T among(const names<T>& known, const ordered_json& row, const char* key) {
  const std::string name = row.at(key);
  const auto found = known.find(name);
  if (found == known.end()) throw std::domain_error(std::string(key) + " is " + name + ", which is none of the known");
  return found->second;
}

uint64_t count(const ordered_json& of, const char* key) {
  // Below it, a batch of them in bytes is a size.
  return static_cast<uint64_t>(number_of(of, key, 0, 1e12));
}

network_row row_of(const ordered_json& row) {
  static const names<layer_kind> kinds = {{"convolution", layer_kind::convolution},
                                          {"activation", layer_kind::activation},
                                          {"pooling", layer_kind::pooling},
                                          {"normalization", layer_kind::normalization},
                                          {"fully_connected", layer_kind::fully_connected},
                                          {"softmax", layer_kind::softmax},
                                          {"other", layer_kind::other}};
  static const names<values> inputs = {
      {"image", values::dense}, {"dense", values::dense}, {"relu", values::relu}, {"pooled_relu", values::pooled_relu}};
  return {.name = row.at("name"),
          .kind = among(kinds, row, "kind"),
          .in_place = row.at("in_place"),
          .winograd = row.at("kernel") == 3 && row.at("input").at(1) == row.at("output").at(1),
          .input_values = count(row, "input_values"),
          .output_values = count(row, "output_values"),
          .moved_values = count(row, "moved_values"),
          .macs = count(row, "macs"),
          .weights = count(row, "weights"),
          .input_is = among(inputs, row, "input_is"),
          .dropped = number_of(row, "dropped", 0, 1),
          .depth = number_of(row, "depth", 0, 1)};
}

// Who makes what a row reads, and who keeps it.
class branches {
 public:
  branches(std::vector<network_row>& rows, const ordered_json& layers) : rows_(rows), from_(rows.size()) {
    names<size_t> at;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const std::string name : layers[i].at("from")) {
        if (!at.contains(name))
          throw std::domain_error(rows[i].name + ": it reads " + name + ", which is no row before");
        from_[i].push_back(at[name]);
      }
      if (!at.emplace(rows[i].name, i).second) throw std::domain_error(rows[i].name + ": it is there twice");
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!layers[i].at("shared").get<bool>()) continue;
      const std::string name = layers[i].at("kept_by");
      if (!at.contains(name) || at[name] <= i || rows[at[name]].input_values == 0)
        throw std::domain_error(rows[i].name + ": it is kept by " + name + ", which is no row behind that keeps any");
      rows[i].kept_by = at[name];
    }
    for (size_t i = rows.size(); i-- > 0;) resolve(i);
  }

 private:
  void resolve(size_t i) {
    network_row& row = rows_[i];
    // What an addition or a concat makes is not made anew: its parts would have to be, too.
    if (from_[i].size() == 1 && from_[from_[i][0]].size() <= 1) row.producer = from_[i][0];
    if (!row.in_place) {
      if (row.kept_by == timed_layer::as_in_a_chain) row.kept_by = i;
      return;
    }
    row.kept_by = i;
    for (size_t reader = i + 1; reader < rows_.size(); ++reader)
      if (std::find(from_[reader].begin(), from_[reader].end(), i) != from_[reader].end()) {
        row.kept_by = rows_[reader].kept_by;
        return;
      }
  }

  std::vector<network_row>& rows_;
  std::vector<std::vector<size_t>> from_;
};

network_table network_of(const ordered_json& file) {
  network_table found{.name = file.at("network")};
  const ordered_json& layers = file.at("layers");
  if (!layers.is_array() || layers.empty()) throw std::domain_error("it has no layers");
  read_rows(layers, "row", [&](const ordered_json& layer) {
    found.rows.push_back(row_of(layer));
    found.weights += found.rows.back().weights;
  });
  if (std::all_of(found.rows.begin(), found.rows.end(), [](const network_row& r) { return r.input_values == 0; }))
    throw std::domain_error("no layer keeps any values");
  branches(found.rows, layers);
  found.image_side = layers[0].at("input").at(1);
  return found;
}

const ordered_json& named(const ordered_json& all, const char* what, const std::string& name) {
  std::string known;
  for (const ordered_json& one : all) {
    if (one.at("name") == name) return one;
    known += (known.empty() ? "" : ", ") + one.at("name").get<std::string>();
  }
  throw std::domain_error(std::string("it has no ") + what + " " + name + ", but " + known);
}

std::vector<double> ascending(const ordered_json& of, const char* key) {
  std::vector<double> x = of.at(key);
  if (x.empty() || !std::is_sorted(x.begin(), x.end())) throw std::domain_error(std::string(key) + " do not ascend");
  return x;
}

zeros_table zeros_of(const ordered_json& file) {
  zeros_table found{ascending(file, "depths"), ascending(file, "epochs"), file.at("relu"),
                    number_of(file.at("pooled"), "ratio", 0, 1)};
  bool sane = found.relu.size() == found.epochs.size();
  for (const auto& of_epoch : found.relu) {
    sane = sane && of_epoch.size() == found.depths.size();
    for (const double zeros : of_epoch) sane = sane && zeros >= 0 && zeros <= 1;
  }
  if (!sane) throw std::domain_error("relu has not a share of zeros for each epoch and depth");
  return found;
}

}  // namespace

double network_table::dense_share() const {
  double dense = 0, all = 0;
  for (const network_row& row : rows) {
    const auto kept = static_cast<double>(row.input_values);
    all += kept;
    if (row.input_is == values::dense) dense += kept;
  }
  return dense / all;
}

double between(const std::vector<double>& x, const std::vector<double>& y, double at) {
  const auto above = static_cast<size_t>(std::upper_bound(x.begin(), x.end(), at) - x.begin());
  if (above == 0) return y.front();
  if (above == x.size()) return y.back();
  const double t = (at - x[above - 1]) / (x[above] - x[above - 1]);
  return y[above - 1] + t * (y[above] - y[above - 1]);
}

double zeros_table::at(const network_row& row, double epoch) const {
  if (row.input_is == values::dense) return row.dropped;
  std::vector<double> of_epoch;
  for (const auto& recorded : relu) of_epoch.push_back(between(depths, recorded, row.depth));
  const double zeros = between(epochs, of_epoch, epoch) * (row.input_is == values::pooled_relu ? pooled : 1);
  return zeros + (1 - zeros) * row.dropped;
}

network_table read_network(const std::string& path) { return read_json(path, "tuck-network/1", network_of); }

zeros_table read_zeros(const std::string& path) { return read_json(path, "tuck-sparsity/1", zeros_of); }

machine read_machine(const std::string& path, const std::string& gpu, const std::string& link) {
  return read_json(path, "tuck-gpus/1", [&](const ordered_json& file) {
    const ordered_json &assumed = file.at("assumed"), &of_gpu = named(file.at("gpus"), "GPU", gpu),
                       &of_link = named(file.at("links"), "link", link);
    return machine{.flops = above_0(of_gpu, "fp32_flops"),
                   .bytes_per_second = above_0(of_gpu, "bytes_per_second"),
                   .memory_bytes = above_0(of_gpu, "memory_bytes"),
                   .compute_efficiency = above_0(assumed, "compute_efficiency"),
                   .memory_efficiency = above_0(assumed, "memory_efficiency"),
                   .winograd_speedup = above_0(assumed, "winograd_speedup"),
                   .launch = above_0(assumed, "launch_seconds"),
                   .link = {above_0(of_link, "d2h"), above_0(of_link, "h2d")},
                   .rates = rates_of(of_gpu, assumed)};
  });
}

std::vector<timed_layer> time_layers(const network_table& network, uint64_t batch, const machine& on) {
  std::vector<timed_layer> layers;
  for (const network_row& row : network.rows) {
    timed_layer l{.shape = {.kind = row.kind,
                            .input_bytes = 4 * batch * row.input_values,
                            .output_bytes = 4 * batch * row.output_values,
                            .in_place = row.in_place},
                  .producer = row.producer,
                  .kept_by = row.kept_by};
    const auto images = static_cast<double>(batch);
    const double flops = 2 * static_cast<double>(row.macs) * images / (row.winograd ? on.winograd_speedup : 1);
    const double moved = 4 * (static_cast<double>(row.moved_values) * images + static_cast<double>(row.weights));
    const double work = std::max(flops / (on.compute_efficiency * on.flops), moved / on.layer_rate());
    if (row.moved_values != 0) {
      l.forward = work + on.launch;
      l.backward = 2 * work + on.launch;
    }
    layers.push_back(l);
  }
  return layers;
}

}  // namespace tuck::bench
