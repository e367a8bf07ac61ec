// A gateway as it is published, configured as it is told, with files of its own in the folder it is given.
import { join } from 'node:path';
import { createGateway } from '../../../dist/index.js';

const [folder, text] = process.argv.slice(2);
const log = { info() {}, warn() {} };
const dataDir = join(folder, `data-${process.pid}`);
const gateway = await createGateway({ config: JSON.parse(text), dataDir, log });
const { url } = await gateway.listen({ port: 0 });

process.on('message', ({ userId }) => {
  gateway.createSession({ userId }).then(({ id, token }) => process.send({ id, token }));
});
process.send({ url: `${url}/mcp/it` });
