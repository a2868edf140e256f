#include "ravnest/object_store/answers.h"

#include <charconv>

#include "ravnest/base/printable.h"
#include "ravnest/object_store/object_name.h"
#include "ravnest/object_store/xml.h"

namespace ravnest::object_store {
namespace {

constexpr std::uint64_t kMostParts = 10'000;

Result<XmlElement> answer_named(std::string_view body, std::string_view name) {
  auto root = parse_xml(body);
  if (!root.ok()) return root.status().with_context("the server's answer");
  if (root->name != name) return corrupt("the server answered with ", printable(root->name), " in place of ", name);
  return root;
}

bool is_truncated(const XmlElement& root) { return root.child_text("IsTruncated") == "true"; }

// Names that XML cannot have are asked for as in URLs; servers that do not know of that do not say that they did it.
Result<std::string> name_in(const XmlElement& root, std::string_view written) {
  if (root.child_text("EncodingType") == "url") return percent_decoded(written);
  return std::string(written);
}

std::string_view printed_or(std::string_view text, std::string_view otherwise) {
  return text.empty() ? otherwise : text;
}

Result<ListedObject> decode_object(const XmlElement& root, const XmlElement& written) {
  auto key = name_in(root, written.child_text("Key"));
  if (!key.ok()) return key.status();
  if (key->empty()) return corrupt("the server lists an object without a key");
  const auto size = decode_count(written.child_text("Size"));
  if (!size.ok()) return size.status();
  return ListedObject{std::move(*key), *size, bare_etag(written.child_text("ETag")),
                      std::string(written.child_text("LastModified"))};
}

Result<ListedPart> decode_part(const XmlElement& written) {
  const auto number = decode_count(written.child_text("PartNumber"));
  const auto size = decode_count(written.child_text("Size"));
  if (!number.ok()) return number.status();
  if (!size.ok()) return size.status();
  if (*number < 1 || *number > kMostParts) return corrupt("the server lists a part number ", *number);
  return ListedPart{static_cast<int>(*number), *size, bare_etag(written.child_text("ETag"))};
}

}  // namespace

ServerError decode_error(std::string_view body) {
  const auto root = parse_xml(body);
  if (!root.ok()) return {};
  const XmlElement* error = root->name == "Error" ? &*root : root->child("Error");
  if (error == nullptr) return {};
  return {printable(error->child_text("Code")), printable(error->child_text("Message")),
          printable(error->child_text("Region"))};
}

bool is_error(std::string_view body) {
  const auto root = parse_xml(body);
  return root.ok() && root->name == "Error";
}

Result<ListPage> decode_list(std::string_view body) {
  const auto root = answer_named(body, "ListBucketResult");
  if (!root.ok()) return root.status();
  ListPage page;
  for (const XmlElement& child : root->children) {
    if (child.name == "Contents") {
      auto object = decode_object(*root, child);
      if (!object.ok()) return object.status();
      page.objects.push_back(std::move(*object));
    } else if (child.name == "CommonPrefixes") {
      auto prefix = name_in(*root, child.child_text("Prefix"));
      if (!prefix.ok()) return prefix.status();
      page.folders.push_back(std::move(*prefix));
    }
  }
  if (is_truncated(*root)) {
    page.next = std::string(root->child_text("NextContinuationToken"));
    if (page.next.empty()) return corrupt("the server lists a part of the objects, and not how to ask for the rest");
  }
  return page;
}

Result<PartsPage> decode_parts(std::string_view body) {
  const auto root = answer_named(body, "ListPartsResult");
  if (!root.ok()) return root.status();
  PartsPage page;
  for (const XmlElement& child : root->children) {
    if (child.name != "Part") continue;
    auto part = decode_part(child);
    if (!part.ok()) return part.status();
    page.parts.push_back(std::move(*part));
  }
  if (is_truncated(*root)) page.next = std::string(root->child_text("NextPartNumberMarker"));
  return page;
}

Result<UploadsPage> decode_uploads(std::string_view body) {
  const auto root = answer_named(body, "ListMultipartUploadsResult");
  if (!root.ok()) return root.status();
  UploadsPage page;
  for (const XmlElement& child : root->children) {
    if (child.name != "Upload") continue;
    auto key = name_in(*root, child.child_text("Key"));
    if (!key.ok()) return key.status();
    page.uploads.push_back({std::move(*key), std::string(child.child_text("UploadId"))});
  }
  if (is_truncated(*root)) {
    auto next_key = name_in(*root, root->child_text("NextKeyMarker"));
    if (!next_key.ok()) return next_key.status();
    page.next_key = std::move(*next_key);
    page.next_id = std::string(root->child_text("NextUploadIdMarker"));
  }
  return page;
}

Result<std::string> decode_upload_id(std::string_view body) {
  // Servers differ in what they call the element around it.
  const auto root = parse_xml(body);
  if (!root.ok()) return root.status().with_context("the server's answer");
  const std::string_view id = root->child_text("UploadId");
  if (id.empty()) return corrupt("the server began an upload and gave it no id");
  return std::string(id);
}

Result<std::string> decode_completed(std::string_view body) {
  const auto root = parse_xml(body);
  if (!root.ok()) return root.status().with_context("the server's answer");
  if (root->name == "Error") return corrupt("the server did not complete the upload");
  return bare_etag(root->child_text("ETag"));
}

std::string bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

Result<std::uint64_t> decode_count(std::string_view digits) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size())
    return corrupt("the server sent ", printed_or(printable(digits.substr(0, 40)), "nothing"), " in place of a number");
  return count;
}

}  // namespace ravnest::object_store
