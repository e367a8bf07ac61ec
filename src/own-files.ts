import { fileURLToPath } from 'node:url';

/**
 * Where the files of Ambit itself lie. Bundled, other modules lie anywhere; this one keeps its place at the top of the
 * build, and so is the only one that looks for files from where it is.
 */
const here = import.meta.url;
// Tests load this module as source or compiled by itself: the programs are whole in dist/ only.
const top = new URL(/\/(?:src|build)\/own-files\.[jt]s$/.test(here) ? '../dist/' : './', here);

/** The command line of this very Ambit, wherever it is installed. */
export const commandLine = fileURLToPath(new URL('../bin/ambit.js', top));
export const manifest = fileURLToPath(new URL('../package.json', top));
/** Programs of their own, each one file. */
export const wardenProgram = fileURLToPath(new URL('sandbox/reaper/reaper-process.js', top));
export const forwarderProgram = fileURLToPath(new URL('sandbox/egress/forwarder.js', top));
export const filesProgram = fileURLToPath(new URL('workspaces/backends/container/files-process.js', top));
