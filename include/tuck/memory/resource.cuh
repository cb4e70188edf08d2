// SPDX-License-Identifier: Apache-2.0
// memory/resource.hpp for .cu files.
#pragma once

#include <tuck/core/device.cuh>
#include <tuck/memory/resource.hpp>
