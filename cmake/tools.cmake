# What makes builds fast, used where it is installed: ccache and mold.

find_program(RAVNEST_CCACHE ccache)
if(RAVNEST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness ccache passes by every file that uses a precompiled header. Paths below the checkout count as
  # relative ones, so that another clone or worktree finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${RAVNEST_CCACHE})
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  set(RAVNEST_LAUNCHER_IS_CCACHE ON)
endif()

find_program(RAVNEST_MOLD mold)
if(RAVNEST_MOLD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX "-fuse-ld=mold" RAVNEST_LINKER_CAN_BE_MOLD)
  if(RAVNEST_LINKER_CAN_BE_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
