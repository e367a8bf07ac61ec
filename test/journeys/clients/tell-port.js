// Loaded with `--import` before a server that does not say which port it got: tells the port to its parent over the
// channel. The process ends when the channel closes, even if its parent is killed.
import { Server } from 'node:net';

const { listen } = Server.prototype;
Server.prototype.listen = function (...args) {
  this.once('listening', () => process.send({ port: this.address().port }));
  return listen.apply(this, args);
};
process.once('disconnect', () => process.exit());
