// The cases of gRPC's interop clients, for Node, which has no such client of its own.
// node client.mjs MODULES PROTO PORT CASE
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, proto, port, name] = process.argv.slice(2);
const load = createRequire(`${modules}/`);
const grpc = load("@grpc/grpc-js");
const { loadSync } = load("@grpc/proto-loader");
const { testing } = grpc.loadPackageDefinition(loadSync(proto, { keepCase: true })).grpc;
const make = (kind) => new kind(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
const client = make(testing.TestService);

const unary = (method, request, options = {}) => new Promise((resolve, reject) => {
  method(request, options, (error, answer) => (error ? reject(error) : resolve(answer)));
});
const refusal = (promise) => promise.then(() => assert.fail("answered"), (error) => error);
const call = (method) => (client[method]).bind(client);
const body = (size) => ({ body: Buffer.alloc(size) });
const collect = async (stream) => {
  const sizes = [];
  for await (const answer of stream) sizes.push(answer.payload.body.length);
  return sizes;
};
const failure = (stream) => new Promise((resolve) => {
  stream.on("data", () => {});
  stream.on("error", resolve);
});
const REQUESTS = [27182, 8, 1828, 45904];
const ANSWERS = [31415, 9, 2653, 58979];
const STATUS = { code: 2, message: "test status message" };
const SPECIAL = { code: 2, message: "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n" };

const cases = {
  async empty_unary() {
    assert.deepEqual(await unary(call("EmptyCall"), {}), {});
  },
  async large_unary() {
    const answer = await unary(call("UnaryCall"), { response_size: 314159, payload: body(271828) });
    assert.equal(answer.payload.body.length, 314159);
  },
  async client_streaming() {
    const answer = await new Promise((resolve, reject) => {
      const stream = client.StreamingInputCall((error, found) => (error ? reject(error) : resolve(found)));
      for (const size of REQUESTS) stream.write({ payload: body(size) });
      stream.end();
    });
    assert.equal(answer.aggregated_payload_size, 74922);
  },
  async server_streaming() {
    const wanted = { response_parameters: ANSWERS.map((size) => ({ size })) };
    assert.deepEqual(await collect(client.StreamingOutputCall(wanted)), ANSWERS);
  },
  async ping_pong() {
    const stream = client.FullDuplexCall();
    const answers = stream[Symbol.asyncIterator]();
    for (const [index, size] of ANSWERS.entries()) {
      stream.write({ response_parameters: [{ size }], payload: body(REQUESTS[index]) });
      assert.equal((await answers.next()).value.payload.body.length, size);
    }
    stream.end();
    assert.equal((await answers.next()).done, true);
  },
  async empty_stream() {
    const stream = client.FullDuplexCall();
    stream.end();
    assert.deepEqual(await collect(stream), []);
  },
  async cancel_after_begin() {
    const error = await new Promise((resolve) => client.StreamingInputCall(resolve).cancel());
    assert.equal(error.code, grpc.status.CANCELLED);
  },
  async cancel_after_first_response() {
    const stream = client.FullDuplexCall();
    const ended = failure(stream);
    stream.write({ response_parameters: [{ size: 31415 }], payload: body(27182) });
    await new Promise((resolve) => stream.once("data", resolve));
    stream.cancel();
    assert.equal((await ended).code, grpc.status.CANCELLED);
  },
  async timeout_on_sleeping_server() {
    const stream = client.FullDuplexCall({ deadline: Date.now() + 1 });
    const ended = failure(stream);
    stream.write({ payload: body(27182) });
    assert.equal((await ended).code, grpc.status.DEADLINE_EXCEEDED);
  },
  async status_code_and_message() {
    const error = await refusal(unary(call("UnaryCall"), { response_status: STATUS }));
    assert.deepEqual([error.code, error.details], [STATUS.code, STATUS.message]);
    const stream = client.FullDuplexCall();
    const ended = failure(stream);
    stream.write({ response_status: STATUS });
    stream.end();
    const { code, details } = await ended;
    assert.deepEqual([code, details], [STATUS.code, STATUS.message]);
  },
  async special_status_message() {
    const error = await refusal(unary(call("UnaryCall"), { response_status: SPECIAL }));
    assert.deepEqual([error.code, error.details], [SPECIAL.code, SPECIAL.message]);
  },
  async unimplemented_method() {
    const error = await refusal(unary(call("UnimplementedCall"), {}));
    assert.equal(error.code, grpc.status.UNIMPLEMENTED);
  },
  async unimplemented_service() {
    const other = make(testing.UnimplementedService);
    const error = await refusal(unary(other.UnimplementedCall.bind(other), {}));
    assert.equal(error.code, grpc.status.UNIMPLEMENTED);
    other.close();
  },
};

await cases[name]();
client.close();
