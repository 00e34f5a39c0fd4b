import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs the test classes, or tests as Class#method, named after the report's file and writes what became of them as JUnit's XML. */
public class RunTests extends RunListener {
    private final Map<String, String> outcomes = new LinkedHashMap<>();

    private static String key(Description test) {
        return escaped(test.getClassName()) + "\" name=\"" + escaped(String.valueOf(test.getMethodName()));
    }

    private static String escaped(String text) {
        StringBuilder safe = new StringBuilder();
        for (char letter : text.toCharArray()) {
            if (letter == '&') safe.append("&amp;");
            else if (letter == '<') safe.append("&lt;");
            else if (letter == '>') safe.append("&gt;");
            else if (letter == '"') safe.append("&quot;");
            else if (letter >= ' ') safe.append(letter);
            else safe.append(' ');
        }
        return safe.toString();
    }

    @Override public void testStarted(Description test) {
        System.out.println("# " + test);
        outcomes.put(key(test), "");
    }

    @Override public void testIgnored(Description test) {
        outcomes.put(key(test), "<skipped/>");
    }

    @Override public void testAssumptionFailure(Failure failure) {
        outcomes.put(key(failure.getDescription()), "<skipped/>");
    }

    @Override public void testFailure(Failure failure) {
        System.out.println(failure.getTrace());
        outcomes.put(key(failure.getDescription()), "<failure message=\"" + escaped(failure.toString()) + "\"/>");
    }

    private void write(String file) throws Exception {
        try (PrintWriter out = new PrintWriter(file, "UTF-8")) {
            out.println("<testsuite>");
            for (Map.Entry<String, String> each : outcomes.entrySet())
                out.println("<testcase classname=\"" + each.getKey() + "\">" + each.getValue() + "</testcase>");
            out.println("</testsuite>");
        }
    }

    public static void main(String[] arguments) throws Exception {
        RunTests listener = new RunTests();
        JUnitCore runner = new JUnitCore();
        runner.addListener(listener);
        for (int i = 1; i < arguments.length; i++) {
            String[] names = arguments[i].split("#");
            Class<?> type = Class.forName(names[0]);
            if (names.length == 1) runner.run(type);
            else runner.run(Request.method(type, names[1]));
            listener.write(arguments[0]);
        }
        System.exit(0);
    }
}
