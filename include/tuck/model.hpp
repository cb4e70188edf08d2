// SPDX-License-Identifier: Apache-2.0
// Includes all models that decide what to swap, when, and how. Plain C++20, no GPU needed.
#pragma once

#include <tuck/model/advisor.hpp>
#include <tuck/model/bound_control.hpp>
#include <tuck/model/predictor.hpp>
#include <tuck/model/predictor_file.hpp>
#include <tuck/model/vdnn.hpp>
