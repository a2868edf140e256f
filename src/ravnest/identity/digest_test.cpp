#include "ravnest/identity/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/identity/sha256.h"

namespace ravnest::identity {
namespace {

TEST(Digest, OfPiecesIsThatOfTheWhole) {
  auto digest = Digest::sha256();
  ASSERT_TRUE(digest.ok());
  for (const std::string_view piece : {"ab", "", "c"}) ASSERT_TRUE(digest->add(as_byte_span(piece)).ok());
  const auto finished = digest->finish();
  ASSERT_TRUE(finished.ok());
  EXPECT_EQ(to_hex(*finished), sha256(as_byte_span("abc")).value());
}

TEST(Digest, OfMd5IsThatOfRfc1321) {
  EXPECT_EQ(to_hex(md5(as_byte_span("message digest")).value()), "f96b697d7cb7938d525a2f31aaf161d0");
}

// RFC 4231, test cases 1, 2 and 6 (a key that is longer than a block).
TEST(Digest, HmacIsThatOfRfc4231) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There").value()),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?").value()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      to_hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First").value()),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// RFC 4648, section 10.
TEST(Digest, Base64IsThatOfRfc4648) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace ravnest::identity
