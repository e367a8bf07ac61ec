import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { refuseAmbiguousKeys } from '../../src/wire/envelope-keys.ts';
import { MessageFault, readMessage } from '../../src/wire/message.ts';
import { valueText } from './json-texts.ts';

function check(text: string): void {
  refuseAmbiguousKeys(readMessage(Buffer.from(text)));
}

function call(params: string, method = 'tools/call'): string {
  return `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${params}}}`;
}

const relatedTask = '"io.modelcontextprotocol/related-task"';

describe('what a caller sends', () => {
  test.each([
    ['a name twice', '"name":"a","name":"b"'],
    ['a name twice, once escaped', '"name":"a","n\\u0061me":"b"'],
    ['another case', '"name":"a","Name":"b"'],
    ['another case alone', '"NAME":"a"'],
    ['arguments in another case', '"name":"a","Arguments":{}'],
    ['arguments by Unicode folding', '"name":"a","argumentſ":{}'],
    ['requestState by Unicode folding', '"name":"a","reque\\u017ftState":"x"'],
    ['a kelvin sign for a k', '"name":"a","tas\u212aId":"x"'],
    ['_meta twice', '"_meta":{},"_meta":{}'],
    ['_meta in another case', '"name":"a","_Meta":{}'],
    ['an unknown name twice', '"x":1,"x":2'],
    ['twice among many', `${Array.from({ length: 20 }, (_, i) => `"k${i}":0`).join(',')},"k3":1`],
    ['a key of _meta twice', '"_meta":{"a":1,"a":2}'],
    ['a key of _meta in two spellings', '"_meta":{"x/a":1,"X/a":2}'],
    ['a progress token in another case', '"_meta":{"ProgressToken":1}'],
    ['a reserved key in another case', '"_meta":{"io.modelcontextprotocol/ProtocolVersion":"x"}'],
    ['a reserved prefix in another case', '"_meta":{"IO.modelcontextprotocol/related-task":{"taskId":"x"}}'],
    ['a reserved key by Unicode folding', '"_meta":{"io.modelcontextprotocol/related-taſk":{"taskId":"x"}}'],
    ['a task id twice', `"_meta":{${relatedTask}:{"taskId":"a","taskId":"b"}}`],
    ['a task id in another case', `"_meta":{${relatedTask}:{"taskId":"a","TaskId":"b"}}`],
  ])('%s is refused', (_name, params) => {
    expect(() => check(call(params))).toThrow(MessageFault);
  });

  test.each([
    ['names of the protocol', '"name":"a","arguments":{},"_meta":{"progressToken":1}'],
    ['names it does not know', '"name":"a","NAMES":1,"nam":2,"N":3'],
    ['keys of _meta it does not know', '"_meta":{"io.modelcontextprotocol/Other":1,"com.example/Key":2}'],
    ['names of Object', '"constructor":1,"__proto__":{},"toString":2'],
  ])('%s are fine', (_name, params) => {
    expect(() => check(call(params))).not.toThrow();
  });

  test.each(['tools/call', 'initialize', 'ping', 'tasks/cancel', 'resources/read'])(
    '%s without an id is refused',
    (method) => {
      expect(() => check(`{"jsonrpc":"2.0","method":"${method}","params":{}}`)).toThrow(MessageFault);
      expect(() => check(`{"jsonrpc":"2.0","method":"${method}"}`)).toThrow(MessageFault);
    },
  );

  test.each(['notifications/cancelled', 'notifications/progress', 'notifications/acme'])(
    '%s with an id is refused',
    (method) => {
      expect(() => check(`{"jsonrpc":"2.0","id":1,"method":"${method}"}`)).toThrow(MessageFault);
    },
  );

  test.each(['acme/do', 'initialized', 'pings', '$/x'])('%s may be either', (method) => {
    expect(() => check(`{"jsonrpc":"2.0","id":1,"method":"${method}"}`)).not.toThrow();
    expect(() => check(`{"jsonrpc":"2.0","method":"${method}"}`)).not.toThrow();
  });

  test('a tool may call its arguments as it likes', () => {
    fc.assert(
      fc.property(valueText, (value) => {
        check(call(`"name":"a","arguments":{"Name":1,"name":2,"name":3,"_meta":{},"_Meta":{},"x":${value}}`));
      }),
    );
  });

  test('methods of others may call their parameters as they like, but for _meta', () => {
    expect(() => check(call('"Name":"a","URI":1', 'acme/do'))).not.toThrow();
    expect(() => check(call('"_Meta":{"ambit/context":{}}', 'acme/do'))).toThrow(MessageFault);
    expect(() => check(call('"_meta":{},"_META":{"ambit/context":{}}', 'acme/do'))).toThrow(MessageFault);
  });

  test.each([
    ['_meta twice', '"result":{"_meta":{},"_meta":{"ambit/context":{}}}'],
    ['_meta in another case', '"result":{"action":"accept","_Meta":{"ambit/context":{}}}'],
    ['a key of _meta twice', '"result":{"_meta":{"a":1,"\\u0061":2}}'],
    ['an action twice', '"result":{"action":"decline","action":"accept"}'],
    ['params beside the result', '"result":{},"params":{"_meta":{"ambit/context":{}}}'],
    ['params beside the error', '"error":{"code":1,"message":""},"params":{}'],
  ])('an answer to a push with %s is refused', (_name, members) => {
    expect(() => check(`{"jsonrpc":"2.0","id":1,${members}}`)).toThrow(MessageFault);
  });

  test.each([
    '"result":{"action":"accept","content":{"a":1,"A":2,"a":3},"_meta":{"x/y":1}}',
    '"result":{"Action":"accept"}',
    '"result":null',
    '"error":{"code":1,"message":"","data":{"a":1,"a":2}}',
  ])('an answer to a push with %s is fine', (members) => {
    expect(() => check(`{"jsonrpc":"2.0","id":1,${members}}`)).not.toThrow();
  });
});
