import fc from 'fast-check';
import { proof } from './proof.ts';

/** What is random is the same in every run of `npm test`, so that nothing fails by luck; `npm run proof` looks further. */
export const seed = proof ? Math.floor(Math.random() * 2 ** 31) : 20_300_101;

fc.configureGlobal({ seed });
