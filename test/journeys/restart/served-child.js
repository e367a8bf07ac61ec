// A gateway from the build, on the data directory it is given. Its parent opens sessions and keeps state through it.
import { join } from 'node:path';
import { loadConfig } from '../../../build/config/load.js';
import { listenHttp } from '../../../build/entrances/http/listen.js';
import { openGateway } from '../../../build/gateway/gateway.js';
import { openSqliteStore } from '../../../build/stores/index.js';

const [folder, text] = process.argv.slice(2);
const configFile = join(folder, 'ambit.yaml');
const dataDir = join(folder, 'data');
const log = { info() {}, warn() {} };
const { config } = await loadConfig({ text, file: configFile });
const file = join(folder, 'sessions.db');
const store = await openSqliteStore({ file });
const gateway = await openGateway({ config, configFile, dataDir, log, brief: true, store });
const { url } = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log);

const asked = {
  async open({ userId }) {
    const { session, token } = await gateway.openSession({ userId });
    return { id: session.id, token };
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
