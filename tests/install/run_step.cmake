# run_step(<what> command...): sets OUT to what the command printed, and stops with it if it failed.
function(run_step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    message(FATAL_ERROR "${what} failed (${failed}):\n${out}")
  endif()
  set(OUT "${out}" PARENT_SCOPE)
endfunction()
