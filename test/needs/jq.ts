import { findProgram } from './program.ts';

export const hasJq = (): boolean => findProgram('jq') !== undefined;
