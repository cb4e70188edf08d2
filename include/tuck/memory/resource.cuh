// memory/resource.hpp for .cu files.
#pragma once

#include <tuck/core/device.cuh>
#include <tuck/memory/resource.hpp>
