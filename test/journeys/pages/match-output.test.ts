import { expect, test } from 'vitest';
import { matchesOutput, tidyOutput } from './match-output.ts';

const names = new Map([
  ['/home/ada', '/tmp/x'],
  ['127.0.0.1:7420', '127.0.0.1:40001'],
]);

test.each([
  ['Session 3f0c2a91 has ended.', 'Session 00ff00ff has ended.'],
  ['used 2s ago at 2026-01-02 03:04:05', 'used 61m ago at 2027-11-12 13:14:15'],
  ['token  ambs_…', 'token        ambs_abc'],
  ['first\n…\nlast', 'first\nsecond\nthird\nlast'],
  ['first\n…\nlast', 'first\nlast'],
  ['/home/ada/x at 127.0.0.1:7420', '/tmp/x/x at 127.0.0.1:40001'],
  ['NAME  USER\none   ada\ntwo   bob', 'NAME  USER\ntwo   bob\none   ada'],
  ['done', 'ambit: using the running gateway of ~/ambit.yaml (pid 7)\ndone'],
])('%j stands for %j', (shown, printed) => {
  expect(matchesOutput(tidyOutput(printed), `${shown}\n`, names)).toBe(true);
});

test.each([
  ['Session 3f0c2a91 has ended.', 'Session 3f0c2a91 has expired.'],
  ['Session 3f0c2a91 has ended.', 'Session 3f0c2a91 has ended.\nAnd more.'],
  ['a.c', 'abc'],
  ['first\n…\nlast', 'first\nsecond'],
  ['NAME  USER\none   ada\ntwo   bob', 'NAME  USER\none   ada\none   ada'],
  ['NAME  USER\none   ada', 'NAME  USER\none   ada\ntwo   bob'],
  ['', 'something'],
])('%j does not stand for %j', (shown, printed) => {
  expect(matchesOutput(`${printed}\n`, `${shown}\n`, names)).toBe(false);
});
