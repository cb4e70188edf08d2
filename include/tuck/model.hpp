// The front door of deciding: what to swap, and when. Plain C++20, no GPU.
#pragma once

#include <tuck/model/advisor.hpp>
#include <tuck/model/bound_control.hpp>
#include <tuck/model/cost.hpp>
#include <tuck/model/predictor.hpp>
#include <tuck/model/vdnn.hpp>
