import { expect, test } from 'vitest';
import { createClosingStack, openOnStack } from '../../../src/gateway/assembly/closing-stack.ts';

test('parts close one after the other, the last opened first, and only once', async () => {
  const closing = createClosingStack();
  const said: string[] = [];
  for (const name of ['first', 'second', 'third']) {
    closing.push(async () => {
      said.push(`${name} begins`);
      await Promise.resolve();
      said.push(`${name} is closed`);
    });
  }
  await Promise.all([closing.close(), closing.close()]);
  await closing.close();
  const order = ['third', 'second', 'first'].flatMap((name) => [`${name} begins`, `${name} is closed`]);
  expect(said).toEqual(order);
});

test('a part that fails to close keeps no other open, and its error is thrown at the end', async () => {
  const closing = createClosingStack();
  const closed: string[] = [];
  closing.push(() => closed.push('first'));
  closing.push(() => Promise.reject(new Error('it is stuck')));
  closing.push(() => closed.push('third'));
  await expect(closing.close()).rejects.toThrow('it is stuck');
  expect(closed).toEqual(['third', 'first']);

  const several = createClosingStack();
  for (const each of ['one', 'two']) {
    several.push(() => {
      throw new Error(each);
    });
  }
  const error = await several.close().catch((thrown: unknown) => thrown);
  expect((error as AggregateError).errors.map(({ message }: Error) => message)).toEqual(['two', 'one']);
});

test('a part that cannot be opened leaves none open before it, and says why', async () => {
  const closed: string[] = [];
  const opening = openOnStack(async (closing) => {
    closing.push(() => closed.push('first'));
    closing.push(() => Promise.reject(new Error('it is stuck')));
    throw new Error('the third cannot be opened');
  });
  await expect(opening).rejects.toThrow('the third cannot be opened');
  expect(closed).toEqual(['first']);
});
