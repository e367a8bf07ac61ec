// Writes to the store in the file it is given, from the build, and says what was acknowledged, until it is killed.
import { writeSync } from 'node:fs';
import { createNewSession } from '../../build/public/testing/store-suite/harness.js';
import { openSqliteStore } from '../../dist/stores/index.js';

const [file, name] = process.argv.slice(2);
const store = await openSqliteStore({ file });
const say = (line) => writeSync(1, `${JSON.stringify(line)}\n`);

async function work(lane) {
  for (let number = 0; ; number++) {
    const id = `${name}-${lane}-${number}`;
    const draft = createNewSession({
      id,
      name: id,
      userId: name,
      keyId: null,
      permissions: ['a', 'b'],
      metadata: { number },
    });
    const created = await store.create({ ...draft, ttlSeconds: 3600, lifetimeSeconds: 3600 });
    say({ id, did: created.outcome });
    await store.state.set(id, 'k', number);
    say({ id, did: 'state' });
    await store.marks.put(id, 'm', String(number));
    say({ id, did: 'mark' });
    await store.admit({ id, limits: { user: {} } });
    say({ id, did: 'admit' });
    await store.update(id, 1, { permissions: ['a'] });
    say({ id, did: 'update' });
    if (number % 3 === 0) {
      await store.end(id);
      say({ id, did: 'end' });
    }
  }
}

for (let lane = 0; lane < 4; lane++) work(lane);
