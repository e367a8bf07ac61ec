/** `npm run proof` runs the same suites at full counts: long races, thousands of sessions. */
export const proof = process.env.AMBIT_PROOF === '1';

export function counts(test: number, full: number): number {
  return proof ? full : test;
}
