import { findProgram } from './program.ts';

export const hasBwrap = (): boolean => findProgram('bwrap') !== undefined;

/** A PATH without bwrap, and without any other program. */
export const pathWithoutBwrap = '/nonexistent';
