import { hasProgram } from './program.ts';

export const hasBwrap = (): boolean => hasProgram('bwrap', ['bubblewrap'], 'the tests of the sandbox');

/** A PATH on which there is no sandbox to be found, nor anything else. */
export const pathWithoutBwrap = '/nonexistent';
