# What can be switched, and the compiler settings every target shares.
option(GRAFT_TESTS "Build the tests" ON)
option(GRAFT_BENCHMARKS "Build the benchmarks in tests/bench" OFF)
option(GRAFT_FUZZERS "Build the libFuzzer targets in tests/fuzz (needs clang)" OFF)
option(GRAFT_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
option(GRAFT_UNITY "Compile sources of a folder together, and tests with precompiled headers: a whole build in half the time, a changed file in ten times" OFF)
set(GRAFT_CUDA AUTO CACHE STRING "Build the CUDA operators: AUTO (when nvcc is found), ON or OFF")
set(GRAFT_LLVM AUTO CACHE STRING "Build libgraft_ops_llvm.so, machine code at run time: AUTO (when llvm-config is found), ON or OFF")
set(GRAFT_GUI AUTO CACHE STRING "Build graft-gui: AUTO (when Qt 6 and QScintilla are found), ON or OFF")
# Hopper's own kernels as machine code; for every other GPU since Ampere the driver compiles the portable ones.
set(GRAFT_CUDA_ARCHITECTURES "80-virtual;90a-real" CACHE STRING "CUDA architectures, e.g. 80;90a for machine code of both")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -g1 keeps line numbers in crash reports at a third of the link time of full debug info.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# CMake 3.25 knows no CUDA 20, and Torch copies the C++ standard to CUDA unless it is set.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(GRAFT_CCACHE ccache)
if(GRAFT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GRAFT_CCACHE})
  # By the contents of all files read, not by what the preprocessor makes of them: that is the view of one architecture, and a change to
  # code for another that keeps the number of lines would find the object from before it. The namespace leaves such objects behind.
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_NAMESPACE=graft-cuda ${GRAFT_CCACHE})
endif()
find_program(GRAFT_MOLD mold)
if(GRAFT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# graft_unity(TARGET): where GRAFT_UNITY is on, a dozen of the target's sources are compiled as one. Names in their anonymous
# namespaces must differ. Sources with options of their own stay alone.
function(graft_unity target)
  if(GRAFT_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

add_library(graft_flags INTERFACE)
target_include_directories(graft_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(graft_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # False alarms of g++ 13 inside fmt 9's header-only code.
  target_compile_options(graft_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds -Wno-stringop-overflow>)
endif()
if(GRAFT_WARNINGS_AS_ERRORS)
  target_compile_options(graft_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(GRAFT_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GRAFT_FUZZERS needs clang: configure another build folder with -DCMAKE_CXX_COMPILER=clang++ (./dev fuzz does).")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()
