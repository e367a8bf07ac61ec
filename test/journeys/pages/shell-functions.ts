import { join } from 'node:path';
import { repository } from '../start-ambit.ts';
import type { CommandServer } from './command-server.ts';

/**
 * Functions that stand in the shell for programs that take long. `npm run proof` does without them.
 *
 * - `ambit` is answered by the test's own process, except where the command reads stdin or keeps running.
 * - `ambit serve` takes any free port, because pages run beside each other and beside a gateway of the developer.
 * - `npm ci` and `npm i` link the packages of this repository instead of downloading them, and `npx tsc` runs the linked one.
 * - `git clone` of Ambit finds the checkout that the scene has made.
 */
export function writeShellFunctions({ port, secret }: CommandServer): string {
  return `
ambit() {
  case "$1" in
    serve) command ambit "$@" --port 0; return ;;
    stdio | run | login | credential) command ambit "$@"; return ;;
  esac
  local channel descriptor text code=1 name
  exec {channel}<>/dev/tcp/127.0.0.1/${port}
  {
    printf '%s\\0' ${secret} "$HOME" "$PWD" "$#" "$@"
    for name in "\${!AMBIT_@}"; do printf '%s=%s\\0' "$name" "\${!name}"; done
    printf 'end\\0'
  } >&$channel
  while IFS= read -r -d '' descriptor <&$channel && IFS= read -r -d '' text <&$channel; do
    if [ "$descriptor" = exit ]; then code=$text; else printf '%s' "$text" >&"$descriptor"; fi
  done
  exec {channel}>&-
  return "$code"
}
npx() {
  case "$1" in
    ambit) shift; ambit "$@" ;;
    tsc) shift; node_modules/.bin/tsc "$@" ;;
    *) command npx "$@" ;;
  esac
}
npm() {
  case "$1" in
    ci | link | pack) ;;
    start) node examples/demo/start.js --port 0 ;;
    init) echo '{"type":"module"}' >package.json ;;
    i)
      if [ "$2" = -g ]; then return; fi
      mkdir node_modules
      ln -s ${join(repository, 'node_modules')}/{.bin,*} ~/ambit node_modules
      mv node_modules/ambit node_modules/ambit-mcp
      ;;
    *) command npm "$@" ;;
  esac
}
git() {
  if [ "$1" != clone ]; then command git "$@"; fi
}
`;
}
