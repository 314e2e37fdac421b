// The records of a layer as text. They are read back by us alone, and checked all the same.
#pragma once

#include "workspace/layer/layer.h"

#include <string>
#include <string_view>

namespace glovebox::workspace {

std::string encode_facts(const LayerFacts& facts);
Result<LayerFacts> decode_facts(std::string_view text);

std::string encode_base(const Base& base);
Result<Base> decode_base(std::string_view text);

// Digits, lower-case hex letters and dashes: safe as a name.
bool is_layer_id(std::string_view id);

}  // namespace glovebox::workspace
