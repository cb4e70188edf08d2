# Copies the shared libraries that PROGRAMS need to TO: all but those of the C library and of the driver, which the
# machine has itself.
# Those of an earlier run would be found there, and elsewhere too.
file(GLOB earlier ${TO}/lib*.so.*)
if(earlier)
  file(REMOVE ${earlier})
endif()
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${PROGRAMS}
  RESOLVED_DEPENDENCIES_VAR found
  UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread)\\.so" "^lib(cuda|nvidia-ml)\\.so")
if(missing)
  message(FATAL_ERROR "not found: ${missing}")
endif()
file(COPY ${found} DESTINATION ${TO} FOLLOW_SYMLINK_CHAIN)
