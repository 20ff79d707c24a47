// Agent Memory for OpenCode: records prompts, tool results and answers, and adds the context of
// earlier sessions to the system prompt. Written by `memory install`; `memory uninstall` removes it.
import { spawn, spawnSync } from "node:child_process"

const COMMAND = ""
const LIMIT_MS = 10_000
const LAST_LIMIT_MS = 2_000 // OpenCode does not wait for the handler of an event
const MAX_SESSIONS = 500
const BEFORE = new Set(["bash", "edit", "multiedit", "apply_patch", "patch", "write", "read"])
const SHELL = ["-c", COMMAND]
// Reads a call on each line, then makes the calls one after the other when nobody waits any more.
const LATER =
  `trap "" HUP; calls=$(cat); { printf "%s\\n" "$calls" | while IFS= read -r call; do` +
  ` printf "%s" "$call" | /bin/sh -c "$1"; done; } > /dev/null 2>&1 &`

export const AgentMemory = async ({ client, directory }) => {
  const sessions = new Map()
  const loadedAt = Date.now()

  const encode = (event, session, more) =>
    JSON.stringify({
      hook_event_name: event,
      cwd: directory,
      session_id: session.parent || session.id,
      ...(session.parent ? { agent_id: session.id, agent_type: session.agent || "subagent" } : {}),
      ...more,
    })

  // Every failure is an empty answer: a hook must never stop the agent.
  const send = (event, session, more = {}) =>
    new Promise((resolve) => {
      let answer = ""
      const finish = () => resolve(readContext(answer))
      try {
        const child = spawn("/bin/sh", SHELL, {
          cwd: directory,
          stdio: ["pipe", "pipe", "ignore"],
          timeout: LIMIT_MS,
        })
        child.on("error", finish)
        child.on("close", finish)
        child.stdin.on("error", () => {})
        child.stdout.setEncoding("utf8")
        child.stdout.on("data", (data) => {
          answer += data
        })
        child.stdin.end(encode(event, session, more))
      } catch {
        finish()
      }
    })

  // OpenCode may exit right after these events, so wait for the end here.
  const runLast = (shell, input) => {
    try {
      const stdio = ["pipe", "ignore", "ignore"]
      spawnSync("/bin/sh", shell, { cwd: directory, input, stdio, timeout: LAST_LIMIT_MS })
    } catch {}
  }

  const end = (ended, shell = SHELL) => {
    for (const session of ended) sessions.delete(session.id)
    const calls = ended
      .filter((session) => !session.parent)
      .map((session) => encode("SessionEnd", session, { reason: "exit" }))
    if (calls.length) runLast(shell, calls.join("\n"))
  }

  const find = async (id) => {
    const known = sessions.get(id)
    if (known) return known
    const session = { id, parent: "", agent: "", context: "", answer: "", turn: "" }
    session.source = "startup"
    session.related = [] // contexts for the next requests, or promises of them
    session.before = new Map() // those of tools that run
    session.failed = new Set()
    sessions.set(id, session)
    if (sessions.size > MAX_SESSIONS) sessions.delete(sessions.keys().next().value)
    try {
      const { data } = await client.session.get({ path: { id } })
      session.parent = data?.parentID || ""
      if (data?.time?.created < loadedAt) session.source = "resume"
    } catch {}
    return session
  }

  const begin = async (session, source) => {
    if (session.parent) await send("SubagentStart", session)
    else session.context = await send("SessionStart", session, { source })
  }

  return {
    "chat.message": async (input, output) => {
      const isNew = !sessions.has(input.sessionID)
      const session = await find(input.sessionID)
      session.agent = input.agent || ""
      session.turn = output.message?.id || input.messageID || ""
      session.answer = ""
      if (isNew) await begin(session, session.source)
      const prompt = readPrompt(output.parts)
      session.related = []
      session.before.clear()
      if (session.parent || !prompt) return // the prompt of a subagent is the call of a tool
      const asked = { prompt, prompt_id: session.turn }
      session.related.push(await send("UserPromptSubmit", session, asked))
    },

    "experimental.chat.system.transform": async (input, output) => {
      const session = sessions.get(input.sessionID)
      if (!session) return
      const contexts = await Promise.all([session.context, ...session.related])
      output.system.push(...contexts.filter(Boolean))
    },

    "experimental.text.complete": async (input, output) => {
      const session = await find(input.sessionID)
      session.answer = output.text || ""
    },

    // OpenCode takes no context here: it is added to the result.
    "tool.execute.before": async (input, output) => {
      if (!BEFORE.has(input.tool)) return
      const session = await find(input.sessionID)
      const context = await send("PreToolUse", session, {
        tool_name: input.tool,
        tool_input: output.args,
        tool_use_id: input.callID,
      })
      if (context) session.before.set(input.callID, context)
    },

    "tool.execute.after": async (input, output) => {
      const session = await find(input.sessionID)
      const result = readResult(output)
      const failed = output?.metadata?.exit > 0 // of a command
      const related = await send(failed ? "PostToolUseFailure" : "PostToolUse", session, {
        tool_name: input.tool,
        tool_input: input.args,
        tool_response: result,
        ...(failed ? { error: result } : {}),
        tool_use_id: input.callID,
      })
      const contexts = [takeBefore(session, input.callID), related].filter(Boolean)
      if (typeof output?.output === "string") output.output = [output.output, ...contexts].join("\n\n")
    },

    "experimental.session.compacting": async (input) => {
      const session = await find(input.sessionID)
      if (!session.parent) await send("PreCompact", session, { trigger: "auto" })
    },

    event: async ({ event }) => {
      const { type, properties } = event
      const part = properties?.part
      if (type === "message.part.updated" && part?.type === "tool" && part.state?.status === "error") {
        const session = await find(part.sessionID)
        if (session.failed.has(part.callID)) return
        session.failed.add(part.callID)
        const related = send("PostToolUseFailure", session, {
          tool_name: part.tool,
          tool_input: part.state.input,
          error: part.state.error,
          tool_use_id: part.callID,
        })
        // There is no result to add to, and OpenCode does not wait for the handler of an event.
        session.related.push(takeBefore(session, part.callID), related)
        await related
      }
      const session = sessions.get(properties?.sessionID || properties?.info?.id)
      if (!session) return
      if (type === "session.idle" && session.turn) {
        const stop = session.parent ? "SubagentStop" : "Stop"
        const said = { last_assistant_message: session.answer, prompt_id: session.turn }
        runLast(SHELL, encode(stop, session, said))
        session.turn = ""
        session.failed.clear()
      }
      if (type === "session.compacted" && !session.parent) await begin(session, "compact")
      if (type === "session.deleted") end([session])
    },

    dispose: async () => {
      end([...sessions.values()], ["-c", LATER, "sh", COMMAND])
    },
  }
}

function readPrompt(parts) {
  const texts = (parts || []).filter((part) => part.type === "text" && !part.synthetic)
  return texts.map((part) => part.text).join("\n")
}

function takeBefore(session, callID) {
  const context = session.before.get(callID)
  session.before.delete(callID)
  return context
}

function readResult(output) {
  if (typeof output?.output === "string") return output.output
  return output?.content ?? ""
}

function readContext(answer) {
  try {
    return JSON.parse(answer)?.hookSpecificOutput?.additionalContext || ""
  } catch {
    return ""
  }
}
