import { findProgram } from './program.ts';

export const hasPodman = (): boolean => findProgram('podman') !== undefined;
