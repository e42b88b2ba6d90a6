# cmake -DSTOKER= -DSHARE= -P write_share.cmake
#
# Fills SHARE with manual pages and completion, in the folders where systems have them under share/.
set(bash ${SHARE}/bash-completion/completions)
set(zsh ${SHARE}/zsh/site-functions)
file(REMOVE_RECURSE ${SHARE})
file(MAKE_DIRECTORY ${SHARE}/man/man1 ${bash} ${zsh})
execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${STOKER} help --man-pages ${SHARE}/man/man1)
execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${STOKER} completion bash
  OUTPUT_FILE ${bash}/stoker)
execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${STOKER} completion zsh
  OUTPUT_FILE ${zsh}/_stoker)
