import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { repository } from '../../structure/source-files.ts';
import { openCodebase } from './open-codebase.ts';

interface Question {
  readonly question: string;
  readonly answers: readonly { readonly path: string; readonly text: string }[];
}

/** `npm run proof` searches the whole source, and other runs the largest part of it without tests. */
const part = proof ? '' : 'v4/core/';

/**
 * Questions about the source of zod, written by somebody who read that source and had not seen this search. Each answer is
 * a line that the right passage contains.
 */
const questions = (
  JSON.parse(readFileSync(join(import.meta.dirname, 'questions.json'), 'utf8')) as readonly Question[]
).flatMap(({ question, answers }) => {
  const own = answers.filter(({ path }) => path.startsWith(part));
  return own.length === 0
    ? []
    : [{ question, answers: own.map((each) => ({ ...each, path: each.path.slice(part.length) })) }];
});

test('W1: for four of five questions the right passage is among the first five', async () => {
  const { ask, askAtOnce } = openCodebase(join(repository, 'node_modules/zod/src', part));
  await ask('schema');
  const missed: string[] = [];
  for (const { question, answers } of questions) {
    const { matches } = await askAtOnce(question);
    const isRight = answers.some(({ path, text }) =>
      matches.some((each) => each.path === path && each.text.includes(text)),
    );
    if (!isRight) missed.push(question);
  }
  expect(questions.length).toBe(proof ? 30 : 25);
  expect(missed.length / questions.length, missed.join('\n')).toBeLessThanOrEqual(0.2);
});
