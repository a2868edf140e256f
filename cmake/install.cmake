# The C++ package: `make install PREFIX=...`, and then find_package(ravnest) with the target ravnest::ravnest and
# #include <ravnest/ravnest.h>. Also the command, beside it.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(rooms GLOBAL PROPERTY RAVNEST_ROOMS)
add_library(ravnest_package INTERFACE)
target_link_libraries(ravnest_package INTERFACE ${rooms})
set_target_properties(ravnest_package PROPERTIES EXPORT_NAME ravnest)
set_target_properties(ravnest_flags PROPERTIES EXPORT_NAME flags)
set_target_properties(ravnest_torch PROPERTIES EXPORT_NAME torch)

add_custom_target(package DEPENDS ${rooms} ravnest)
install(TARGETS ravnest_package ravnest_flags ravnest_torch ${rooms} EXPORT ravnest
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/ravnest COMPONENT cpp)
install(EXPORT ravnest NAMESPACE ravnest:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ravnest COMPONENT cpp
        FILE ravnest-targets.cmake)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ravnest DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp
        FILES_MATCHING PATTERN "*.h" PATTERN "testing" EXCLUDE PATTERN "pch.h" EXCLUDE)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ravnest-config.cmake.in
                              ${CMAKE_BINARY_DIR}/ravnest-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ravnest)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ravnest-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ravnest-config.cmake ${CMAKE_BINARY_DIR}/ravnest-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ravnest COMPONENT cpp)
