// The names of an archive's records, below its root folder. docs/archive.md says what is in them.
#pragma once

#include <cstdint>

namespace ravnest::ir {

inline constexpr char kTrainProgram[] = "models/model.json";
inline constexpr char kWeightsConfig[] = "data/weights/model_weights_config.json";
inline constexpr char kWeightsFolder[] = "data/weights/";
inline constexpr char kConstantsConfig[] = "data/constants/model_constants_config.json";
inline constexpr char kConstantsFolder[] = "data/constants/";
inline constexpr char kSampleInputs[] = "data/sample_inputs/model.pt";
inline constexpr char kByteOrder[] = "byteorder";

// Ours. torch reads everything under extra/ as UTF-8 text, so it must be text.
inline constexpr char kEvalProgram[] = "extra/ravnest/eval.json";
inline constexpr char kMetadata[] = "extra/ravnest/metadata.json";
inline constexpr std::int64_t kMetadataFormat = 1;

}  // namespace ravnest::ir
