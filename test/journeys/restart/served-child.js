// A gateway as it is published, on the data directory it is given. Its parent opens sessions and keeps state through it.
import { join } from 'node:path';
import { createGateway } from '../../../dist/index.js';
import { openSqliteStore } from '../../../dist/stores/index.js';

const [dataDir, text] = process.argv.slice(2);
const log = { info() {}, warn() {} };
const gateway = await createGateway({ config: JSON.parse(text), dataDir, log });
const store = await openSqliteStore({ file: join(dataDir, 'sessions.db') });
const { url } = await gateway.listen({ port: 0 });

const asked = {
  async open({ userId }) {
    const { id, token } = await gateway.createSession({ userId });
    return { id, token };
  },
  keep: ({ id, value }) => store.state.set(id, 'count', value),
};

process.on('message', ({ number, what, ...given }) => {
  asked[what](given).then(
    (answer) => process.send({ number, answer }),
    (error) => process.send({ number, error: String(error) }),
  );
});
process.send({ url });
