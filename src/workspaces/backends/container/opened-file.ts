import type { FoundFile, OpenedFile } from '../backend.ts';
import { nothing } from './answers.ts';
import type { Connection } from './connection.ts';
import { pieceBytes } from './requests.ts';

interface Opened {
  readonly root: number;
  readonly facts: FoundFile;
  /** Its number at the other end; a file that is wholly here has none. */
  readonly file?: number;
}

/** A file at the other end of a connection, and how it begins. It goes with the container: another knows nothing of it. */
export function openedFileOf(connection: Connection, { root, facts, file }: Opened, first: Buffer): OpenedFile {
  let closed = false;

  async function piece(file: number, offset: number, length: number): Promise<Buffer> {
    return connection.ask({
      request: { do: 'read', root, file, offset, length },
      answerBytes: length,
      read(ok, body) {
        nothing.parse(ok);
        return body;
      },
    });
  }

  return {
    facts,
    async read(offset, length) {
      for (const value of [offset, length]) {
        if (!Number.isSafeInteger(value) || value < 0) throw new RangeError('expected a whole number, 0 or more');
      }
      if (file === undefined || offset + length <= first.length) return first.subarray(offset, offset + length);
      const pieces: Buffer[] = [];
      for (let left = length, at = offset; left > 0; ) {
        const wanted = Math.min(left, pieceBytes);
        const bytes = await piece(file, at, wanted);
        pieces.push(bytes);
        if (bytes.length < wanted) break;
        at += wanted;
        left -= wanted;
      }
      return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
    },
    async close() {
      if (closed || file === undefined) return;
      closed = true;
      await connection.ask({ request: { do: 'close', root, file }, read: (ok) => nothing.parse(ok) }).catch(() => {});
    },
  };
}
