package lily.storage;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

import io.delta.storage.CloseableIterator;
import io.delta.storage.HadoopFileSystemLogStore;

/**
 * Delta's log on S3 by conditional put (If-None-Match), so that of several writers of one version just one succeeds.
 *
 * None of Delta's own log stores does so: they create with overwrite off, which S3A checks before it writes and not as
 * it writes, unless it is asked by this option. Written for Janino: no lambdas, no inferred types.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        byte[] content = joined(actions);
        FileSystem fs = path.getFileSystem(configuration);
        if (overwrite.booleanValue()) {
            put(fs.create(path, true), content);
            return;
        }
        try {
            put((FSDataOutputStream) fs.createFile(path).must(CONDITIONAL, true).build(), content);
        } catch (IOException refused) {
            byte[] held;
            try {
                held = held(path, configuration);
            } catch (FileNotFoundException none) {
                throw refused;
            }
            // An attempt whose answer was lost is refused when it is made again: what is there is then our own.
            if (!Arrays.equals(held, content)) {
                FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
                taken.initCause(refused);
                throw taken;
            }
        }
    }

    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    private static byte[] joined(Iterator<String> actions) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            byte[] line = ((String) actions.next()).getBytes(StandardCharsets.UTF_8);
            content.write(line, 0, line.length);
            content.write('\n');
        }
        return content.toByteArray();
    }

    private static void put(FSDataOutputStream out, byte[] content) throws IOException {
        out.write(content, 0, content.length);
        out.close();
    }

    private byte[] held(Path path, Configuration configuration) throws IOException {
        CloseableIterator<String> lines = read(path, configuration);
        try {
            return joined(lines);
        } finally {
            lines.close();
        }
    }
}
