# What `cmake --install build --prefix DIR` writes, the Debian package of `cpack --config build/CPackConfig.cmake`, and the wheel of
# `./dev wheel`. All three hold the same tree:
#
#   bin/graft                      a script (resources/package/graft.sh.in) that finds LibTorch and starts the program
#   bin/graft-gui, graft-raster    where the window was built; not in the wheel
#   lib/graft/bin/graft            the program
#   lib/graft/libgraft_ops*.so     its operators
#   share/graft/rules              the rules that come with Graft
#   share/graft/python             the Python modules; the wheel has them where Python looks for them
#   share/man and completions      made by the program from its own help, for bash, zsh and fish
#   share/doc/graft                not in the wheel
#
# In a wheel this tree is graft/prefix in site-packages, and graft_program.py there starts its bin/graft. What shells and `man` read lies
# in the environment's own share.
#
# LibTorch is not part of it: with CUDA it takes gigabytes. The script looks for it where graft was built with it
# (-DGRAFT_RUN_TORCH=DIR/lib names another place when configuring) and in Python. If there is none, it says what to do. The window
# needs no LibTorch and no GPU: its engine may run on another machine.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # what is built is installed; tests need not be
set(GRAFT_RUN_TORCH "${GRAFT_TORCH_DIR}/lib" CACHE PATH "Where installed programs find LibTorch's libraries")
set_target_properties(graft graft_ops PROPERTIES INSTALL_RPATH "${GRAFT_RUN_TORCH}")
add_custom_target(graft_package DEPENDS graft graft_ops graft_shell_files)  # what the wheel's part of the tree needs
install(TARGETS graft RUNTIME DESTINATION lib/graft/bin COMPONENT graft)
file(STRINGS ${GRAFT_TORCH_DIR}/version.py GRAFT_TORCH_VERSION REGEX "^__version__")
string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" GRAFT_TORCH_VERSION "${GRAFT_TORCH_VERSION}")
configure_file(resources/package/graft.sh.in ${CMAKE_BINARY_DIR}/package/graft @ONLY)
install(PROGRAMS ${CMAKE_BINARY_DIR}/package/graft DESTINATION bin COMPONENT graft)
# In a wheel, PyTorch lies beside it.
set(GRAFT_PACKAGE_TORCH "${GRAFT_RUN_TORCH}")
set(GRAFT_RUN_TORCH "$prefix/../../torch/lib")
configure_file(resources/package/graft.sh.in ${CMAKE_BINARY_DIR}/package/wheel/graft @ONLY)
set(GRAFT_RUN_TORCH "${GRAFT_PACKAGE_TORCH}")
install(PROGRAMS ${CMAKE_BINARY_DIR}/package/wheel/graft DESTINATION bin COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS graft_ops LIBRARY DESTINATION lib/graft COMPONENT graft)
foreach(library graft_ops_cuda graft_cuda_runner)  # where there is CUDA, and they were built
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "${GRAFT_RUN_TORCH}")
    install(TARGETS ${library} LIBRARY DESTINATION lib/graft COMPONENT graft OPTIONAL)
    add_dependencies(graft_package ${library})
  endif()
endforeach()
if(TARGET graft_ops_llvm)
  install(TARGETS graft_ops_llvm LIBRARY DESTINATION lib/graft COMPONENT graft)
  add_dependencies(graft_package graft_ops_llvm)
endif()
install(DIRECTORY resources/rules DESTINATION share/graft COMPONENT graft PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${CMAKE_BINARY_DIR}/package/share DESTINATION . COMPONENT shell OPTIONAL)
install(DIRECTORY resources/python DESTINATION share/graft COMPONENT python PATTERN "__pycache__" EXCLUDE)
# Small models with random weights for the welcome page, where ./dev models has exported them.
foreach(model bert gpt2 llama vit convnext conv_bn_relu feed_forward control_flow)
  install(FILES ${CMAKE_BINARY_DIR}/samples/models/${model}.pt DESTINATION share/graft/samples COMPONENT samples OPTIONAL)
endforeach()
install(FILES README.md DESTINATION share/doc/graft COMPONENT docs)
install(DIRECTORY docs/ DESTINATION share/doc/graft/docs COMPONENT docs
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg" PATTERN "*.schema.json")
install(FILES LICENSE DESTINATION share/doc/graft RENAME copyright COMPONENT docs)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME graft)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_CONTACT "The Graft developers <graft@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_STRIP_FILES ON)
# Found by hand: dpkg-shlibdeps stops at LibTorch, which no package owns. Ubuntu 24.04 renamed some with t64.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libstdc++6, libcgraph6, libgvc6")
if(GRAFT_HAVE_GUI)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS
         ", libqt6widgets6 | libqt6widgets6t64, libqt6svg6 | libqt6svg6t64, libqscintilla2-qt6-15")
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, graphviz, fonts-inter")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Shows a PyTorch model as a graph, finds patterns in it, rewrites them into faster kernels and verifies by
numbers that the result computes the same: a window (graft-gui) and a command line (graft).
LibTorch ${GRAFT_TORCH_VERSION} is not in the package: install PyTorch of that version, or set GRAFT_TORCH.")
include(CPack)
