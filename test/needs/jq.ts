import { hasProgram } from './program.ts';

export const hasJq = (): boolean => hasProgram('jq', ['jq'], 'the lines of the docs that need it');
