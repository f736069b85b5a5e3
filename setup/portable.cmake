# Keeps CPU variants from being built with the library: setup/portable.py names those that it wants as targets.
macro(add_dependencies target)
  if(NOT "${ARGN}" MATCHES "^ggml-cpu-")
    _add_dependencies(${target} ${ARGN})
  endif()
endmacro()
