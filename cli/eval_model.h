// A captured model, evaluated on the validation data. Only the source sees torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "ravnest/base/status.h"

namespace ravnest::cli {

struct EvalRequest {
  std::filesystem::path model;
  std::filesystem::path config = "train.toml";
  std::filesystem::path weights;  // archive/weights/weights.h; empty: those in the archive
  std::string weights_entry;      // of several state dicts in that file
};

struct EvalResult {
  std::uint64_t samples = 0;
  std::optional<double> accuracy;  // in percent
  double loss = 0;
};

Result<EvalResult> eval_model(const EvalRequest& request);

}  // namespace ravnest::cli
