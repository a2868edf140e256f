#include "ravnest/collective/council.h"

#include <gtest/gtest.h>
