export { AmbitError, type ErrorCode, isAmbitError } from './errors.ts';
