import { hasProgram } from './program.ts';

export const hasPodman = (): boolean => hasProgram('podman', ['podman', 'runc'], 'the tests of containers');
