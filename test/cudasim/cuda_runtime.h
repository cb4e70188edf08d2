// The simulator's stand-in for CUDA's header: what kernels and host code see when g++ or clang++ compile
// them. README.md says what is simulated and what is not.
#pragma once

#include "sim/language.hpp"

#include "sim/collectives.hpp"
#include "sim/host_api.hpp"
#include "sim/intrinsics.hpp"
#include "sim/launch.hpp"

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
