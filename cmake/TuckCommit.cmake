# Writes the commit that the sources are of to OUTPUT, a header: cmake -DSOURCE=... -DOUTPUT=... -P TuckCommit.cmake
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=10 --exclude *
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define TUCK_COMMIT \"${commit}\"\n")
