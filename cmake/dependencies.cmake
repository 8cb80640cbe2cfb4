# Everything that comes from outside. `./dev` installs what is required here.
#
# Torch is found through the Python that has it: .venv by default, or -DGRAFT_PYTHON=/path/to/python3.
# CPU-only targets link `graft_libtorch` (torch_cpu and c10 alone): TORCH_LIBRARIES would drag in libtorch_cuda, which costs
# every start of the program 0.1 s.
if(NOT GRAFT_PYTHON)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(GRAFT_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(GRAFT_PYTHON python3 REQUIRED)
  endif()
endif()
if(NOT GRAFT_TORCH_DIR)
  execute_process(
    COMMAND ${GRAFT_PYTHON} -c "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE GRAFT_TORCH_DIR_FOUND OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE graft_torch_status)
  if(NOT graft_torch_status EQUAL 0)
    message(FATAL_ERROR "No PyTorch in ${GRAFT_PYTHON}. Run ./dev build, or pass -DGRAFT_PYTHON=/path/to/python3 that has torch 2.11.0.")
  endif()
  set(GRAFT_TORCH_DIR ${GRAFT_TORCH_DIR_FOUND} CACHE PATH "The directory of the torch Python package")
endif()

add_library(graft_libtorch INTERFACE)
# SYSTEM: LibTorch's headers are not ours to keep free of warnings.
target_include_directories(graft_libtorch SYSTEM INTERFACE ${GRAFT_TORCH_DIR}/include
                                                           ${GRAFT_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(graft_libtorch INTERFACE ${GRAFT_TORCH_DIR}/lib/libtorch_cpu.so ${GRAFT_TORCH_DIR}/lib/libc10.so)
target_link_options(graft_libtorch INTERFACE LINKER:-rpath,${GRAFT_TORCH_DIR}/lib)

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
# Static where there is an archive, so that a build runs on a machine without it.
find_library(GRAFT_RE2 NAMES libre2.a re2 REQUIRED)
find_library(GRAFT_ZLIB NAMES libz.a z REQUIRED)

set(GRAFT_HAVE_CUDA OFF)
if(NOT GRAFT_CUDA STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(GRAFT_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
    if(GRAFT_NVCC)
      set(CMAKE_CUDA_COMPILER ${GRAFT_NVCC})
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${GRAFT_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(GRAFT_HAVE_CUDA ON)
  elseif(GRAFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GRAFT_CUDA=ON, but no nvcc was found. Install the CUDA Toolkit 13 or set CMAKE_CUDA_COMPILER.")
  endif()
endif()

set(GRAFT_HAVE_LLVM OFF)
if(NOT GRAFT_LLVM STREQUAL "OFF")
  find_program(GRAFT_LLVM_CONFIG NAMES llvm-config llvm-config-19 llvm-config-18 llvm-config-17 llvm-config-16 llvm-config-15 llvm-config-14)
  if(GRAFT_LLVM_CONFIG)
    set(GRAFT_HAVE_LLVM ON)
  elseif(GRAFT_LLVM STREQUAL "ON")
    message(FATAL_ERROR "GRAFT_LLVM=ON, but no llvm-config was found. Install llvm-dev, or set GRAFT_LLVM_CONFIG.")
  endif()
endif()
if(NOT GRAFT_HAVE_LLVM)
  message(STATUS "graft: without LLVM, the kernels that Graft generates run on the CPU as the operators that they are made of")
endif()

set(GRAFT_HAVE_GUI OFF)
if(NOT GRAFT_GUI STREQUAL "OFF")
  find_package(Qt6 QUIET COMPONENTS Core Gui Widgets Svg Test)
  find_library(GRAFT_QSCINTILLA NAMES qscintilla2_qt6)
  if(Qt6_FOUND AND GRAFT_QSCINTILLA)
    set(GRAFT_HAVE_GUI ON)
  elseif(GRAFT_GUI STREQUAL "ON")
    message(FATAL_ERROR "GRAFT_GUI=ON, but Qt 6 (with Svg) or QScintilla is missing. Run ./dev build.")
  endif()
endif()

find_path(GRAFT_GRAPHVIZ_INCLUDE graphviz/gvc.h)
find_library(GRAFT_GVC gvc)
find_library(GRAFT_CGRAPH cgraph)

message(STATUS "graft: torch ${GRAFT_TORCH_DIR}, CUDA ${GRAFT_HAVE_CUDA}, LLVM ${GRAFT_HAVE_LLVM}, GUI ${GRAFT_HAVE_GUI}")
