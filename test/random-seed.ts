import fc from 'fast-check';
import { proof } from './proof.ts';

/**
 * The seed of all random cases. In `npm test` it is the same in every run, so that no run fails by luck; `npm run proof`
 * takes a new one each time. The main process of Vitest chooses it and the processes of the tests inherit it.
 */
const chosen = process.env['AMBIT_TEST_SEED'] ?? String(proof ? Math.floor(Math.random() * 2 ** 31) : 20_300_101);
process.env['AMBIT_TEST_SEED'] = chosen;

export const seed = Number(chosen);

fc.configureGlobal({ seed });
