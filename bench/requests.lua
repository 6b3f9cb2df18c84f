-- Sends whole requests out of a file, each once; stops when they are used up. PAYACCEPT_BENCH_REQUESTS names it.
-- Counts answers by status, and keeps the first that is not 200 to be shown.
local threads = {}
function setup(thread)
   thread:set("id", #threads)
   table.insert(threads, thread)
end

function init(args)
   local file = assert(io.open(os.getenv("PAYACCEPT_BENCH_REQUESTS"), "rb"))
   requests = {}
   while true do
      local line = file:read("*l")
      if not line then break end
      requests[#requests + 1] = file:read(tonumber(line))
   end
   file:close()
   next_one, good, bad, first_bad = 0, 0, 0, ""
   loops = os.getenv("PAYACCEPT_BENCH_LOOPS") == "1"
end

function request()
   next_one = next_one + 1
   if next_one > #requests then
      if loops then next_one = 1 else next_one = #requests end
   end
   return requests[next_one]
end

function response(status, headers, body)
   if status == 200 then
      good = good + 1
   else
      bad = bad + 1
      if first_bad == "" then first_bad = status .. " " .. body end
   end
   if not loops and good + bad >= #requests then wrk.thread:stop() end
end

function done(summary, latency, requests)
   local good, bad, first = 0, 0, ""
   for _, thread in ipairs(threads) do
      good = good + thread:get("good")
      bad = bad + thread:get("bad")
      first = thread:get("first_bad")
   end
   io.write(string.format("BENCH %d %d %d %d %d %d %s\n", good, bad, summary.duration,
      latency:percentile(50), latency:percentile(99), summary.errors.timeout + summary.errors.read, first))
end
