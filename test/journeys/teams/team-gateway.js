// A gateway as it is published, in a process of its own. Its parent opens sessions through it.
import { createGateway } from '../../../dist/index.js';

const [dataDir, text] = process.argv.slice(2);
const log = { info() {}, warn() {} };
const gateway = await createGateway({ config: JSON.parse(text), dataDir, log });
const { url } = await gateway.listen({ port: 0 });
process.on('message', async (draft) => {
  const { id, token } = await gateway.createSession(draft);
  process.send({ id, token });
});
process.send({ url });
