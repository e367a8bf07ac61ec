// A gateway from the build, on the Redis and in the folder it is given.
import { join } from 'node:path';
import { loadConfig } from '../../build/config/load.js';
import { listenHttp } from '../../build/entrances/http/listen.js';
import { openGateway } from '../../build/gateway/gateway.js';
import { openRedisStore } from '../../build/stores/index.js';

const [folder, text, url] = process.argv.slice(2);
const configFile = join(folder, 'etc', 'ambit.yaml');
const log = { info() {}, warn() {} };
const { config } = await loadConfig({ text, file: configFile });
const store = await openRedisStore({ url });
const dataDir = join(folder, `data-${process.pid}`);
const gateway = await openGateway({ config, configFile, dataDir, log, brief: true, store });
const listening = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log);

process.on('message', ({ userId }) => {
  gateway.openSession({ userId }).then(({ session, token }) => process.send({ id: session.id, token }));
});
process.send({ url: `${listening.url}/mcp/it` });
