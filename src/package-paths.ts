import { fileURLToPath } from 'node:url';

/**
 * Paths of files that belong to the package itself. The bundler may move other modules; this one stays at the top of
 * the build, and is the only one that finds files relative to itself.
 */
const here = import.meta.url;
// Tests load this module as source or compiled alone; the programs exist as whole files in dist/ only.
const top = new URL(/\/(?:src|build)\/package-paths\.[jt]s$/.test(here) ? '../dist/' : './', here);

/** The command line of this installation of Ambit. */
export const commandLine = fileURLToPath(new URL('../bin/ambit.js', top));
export const manifest = fileURLToPath(new URL('../package.json', top));
/** The files of the web console. */
export const consoleFolder = fileURLToPath(new URL('console/', top));
/** Programs that run in processes of their own, one file each. */
export const reaperProgram = fileURLToPath(new URL('sandbox/reaper/reaper-process.js', top));
export const forwarderProgram = fileURLToPath(new URL('sandbox/egress/forwarder.js', top));
export const filesProgram = fileURLToPath(new URL('workspaces/backends/container/files-process.js', top));
/** The thread that counts what is in the journal. */
export const statisticsProgram = fileURLToPath(new URL('observability/journal/statistics/statistics-worker.js', top));
/** The thread that runs the indexes of folders. */
export const indexProgram = fileURLToPath(new URL('workspaces/codebase/index-worker.js', top));
