cmake_minimum_required(VERSION 3.25)
# Installs what BUILD, a build of SOURCE, installs, looks at each file and moves the tree to TO. With HEADERS and DATA,
# names of folders, BUILD is configured for these first.
set(headers include)
set(data share)
if(DEFINED HEADERS)
  set(headers ${HEADERS})
  set(data ${DATA})
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
                          -DTUCK_PROGRAMS=OFF -DCMAKE_INSTALL_INCLUDEDIR=${HEADERS}
                          -DCMAKE_INSTALL_DATADIR=${DATA} -DCMAKE_INSTALL_DATAROOTDIR=${DATA}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
file(REMOVE_RECURSE ${TO} ${TO}.first)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${TO}.first
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${TO}.first ${TO})

# Each header of the library, what makes packages of them, the licence, and nothing else.
file(GLOB_RECURSE expected RELATIVE ${SOURCE}/include ${SOURCE}/include/*)
list(LENGTH expected count)
if(count LESS 50)
  message(FATAL_ERROR "${SOURCE} has ${count} headers")
endif()
list(TRANSFORM expected PREPEND ${headers}/)
foreach(file cmake/tuck/tuckConfig.cmake cmake/tuck/tuckConfigVersion.cmake cmake/tuck/tuckLanguages.cmake
             cmake/tuck/tuckTargets.cmake doc/tuck/LICENSE pkgconfig/tuck.pc)
  list(APPEND expected ${data}/${file})
endforeach()
file(GLOB_RECURSE found RELATIVE ${TO} ${TO}/*)
set(missing ${expected})
list(REMOVE_ITEM missing ${found})
list(REMOVE_ITEM found ${expected})
if(missing OR found)
  message(FATAL_ERROR "missing: ${missing}\nunexpected: ${found}")
endif()

foreach(file ${expected})
  if(file MATCHES "^${headers}/(.*)")
    file(SHA256 ${SOURCE}/include/${CMAKE_MATCH_1} ours)
    file(SHA256 ${TO}/${file} theirs)
    if(NOT ours STREQUAL theirs)
      message(FATAL_ERROR "${file} is another one")
    endif()
  else()
    file(READ ${TO}/${file} text)
    foreach(folder ${SOURCE} ${BUILD} ${TO})
      string(FIND "${text}" ${folder} at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} speaks of ${folder}")
      endif()
    endforeach()
  endif()
endforeach()
